package config

import (
	"strings"

	"github.com/rs/zerolog"
)

// LogFormats are the formats of the log. Auto is text on a terminal and JSON otherwise.
var LogFormats = []string{"auto", "text", "json"}

// MinLevel returns the lowest level that is logged.
func (c Log) MinLevel() zerolog.Level {
	level, err := zerolog.ParseLevel(strings.ToLower(c.Level))
	if err != nil {
		return zerolog.InfoLevel // Validate rejects it
	}
	return level
}
