"""What CI asks of the packages that IMQ needs."""
