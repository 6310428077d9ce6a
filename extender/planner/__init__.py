"""Plans gangs over ``extender.state``, and says which of their pods may go where."""
