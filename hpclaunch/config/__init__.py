"""What a person writes: site, job and settings files, found by name and read strictly."""
