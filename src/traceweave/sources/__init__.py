"""Readers: one package per trace format, each knowing its format alone, plus discovery."""
