"""`make fuzz`: random input against everything that strangers can write to, for as long as one likes."""
