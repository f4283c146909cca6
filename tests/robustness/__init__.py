"""What happens to run folders when processes are killed, disks answer with errors, and folders come from strangers."""
