//! Fakes and harnesses that tests share.
