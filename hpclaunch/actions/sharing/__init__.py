"""What leaves the machine: reports, exports, crates, and the bundle that installs without internet."""
