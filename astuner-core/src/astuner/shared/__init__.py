"""What rooms and plugins share: clients, files of rows, processes, services."""
