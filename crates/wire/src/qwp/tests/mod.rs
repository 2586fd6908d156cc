//! QWP, read and written.

mod client;
mod egress;
mod fit;
mod ingress;
mod malformed;
mod recorded;
