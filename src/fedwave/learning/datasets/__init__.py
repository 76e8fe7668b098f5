"""Datasets: arrays of your own, MNIST and CIFAR-10 as published, and a task made in memory."""
