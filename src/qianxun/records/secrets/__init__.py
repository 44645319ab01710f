"""What must not be read by others: API keys (`keys`), the models that users registered (`user_models`), and how their
keys are encrypted at rest (`sealing`)."""
