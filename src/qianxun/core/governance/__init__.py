"""What people decide about documents, as values: `validity` says when they are in force. Imports `core` alone."""
