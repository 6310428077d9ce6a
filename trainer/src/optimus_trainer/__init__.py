"""What a training script needs under Optimus. Each module stands alone and may be copied."""
