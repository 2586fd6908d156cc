//! The engine on a disk that loses power.

mod crash_images;
mod damage;
mod ledger;
