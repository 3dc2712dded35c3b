"""What is looked at in captions beside their making. `loops`: captions that repeat themselves."""
