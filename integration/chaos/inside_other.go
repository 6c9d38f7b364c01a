//go:build !linux

package main

// inside does nothing where there are no networks of a program's own.
func inside() {}
