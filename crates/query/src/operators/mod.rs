//! Time-series relational operators: extension nodes and their physical operators.
