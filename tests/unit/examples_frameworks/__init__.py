"""The MXNet and TensorFlow examples, as far as they go without their frameworks."""
