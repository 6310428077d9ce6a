"""The MXNet and TensorFlow examples as real processes, in the environments that their requirements
pin."""
