//! No code: features of crates below DataFusion that only the server, the tests or the command line ask for, asked for here
//! too, so that every selection of packages (`-p tickstone-query`, the program, the Python package) shares one build of
//! them. Without, cargo builds DataFusion once for each selection.
//!
//! `scripts/pinned.py` says what is missing, and runs with the lints.
