"""The run folder: its files, who may write it, how it is read and checked."""
