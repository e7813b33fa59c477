package main

import (
	"strings"

	"github.com/rs/zerolog"
)

// logFormats are the formats of the log. Auto is text on a terminal and JSON otherwise.
var logFormats = []string{"auto", "text", "json"}

// level returns the lowest level that is logged.
func (c LogConfig) level() zerolog.Level {
	level, err := zerolog.ParseLevel(strings.ToLower(c.Level))
	if err != nil {
		return zerolog.InfoLevel // validate has refused it
	}
	return level
}
