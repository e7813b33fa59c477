package mcpbridge

import (
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// A format is a format of strings in JSON Schema. All SDKs accept the same values: sdkgen/testdata/formats.json.
type format struct {
	is   string // for messages: "must be a date such as 2026-01-31"
	fits func(string) bool
}

const (
	datePattern = `[0-9]{4}-[0-9]{2}-[0-9]{2}`
	timePattern = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	userPattern = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
	namePattern = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
	pathPattern = `([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})` // a character of a path
)

var formats = map[string]format{
	"date": {"a date such as 2026-01-31", both(matches(datePattern), isDay)},
	"time": {"a time with an offset such as 14:30:00Z", matches(timePattern)},
	"date-time": {
		"a date and time with an offset such as 2026-01-31T14:30:00Z",
		both(matches(datePattern+"T"+timePattern), isDay),
	},
	"duration": {"an ISO 8601 duration such as P1DT12H", both(
		matches(`P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)`),
		func(s string) bool { return s != "P" && !strings.HasSuffix(s, "T") },
	)},
	"email": {
		"an email address such as ada@example.com",
		matches(userPattern + `(\.` + userPattern + `)*@(` + namePattern + `\.)+` + namePattern),
	},
	"hostname": {"a host name such as www.example.com", both(
		matches(namePattern+`(\.`+namePattern+`)*`),
		func(s string) bool { return len(s) <= 253 },
	)},
	"ipv4": {"an IPv4 address such as 192.0.2.1", func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is4()
	}},
	"ipv6": {"an IPv6 address such as 2001:db8::1", func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is6() && a.Zone() == ""
	}},
	"uri": {"a URI such as https://example.com/a", matches(
		`[A-Za-z][A-Za-z0-9+.-]*:` +
			`(//(([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?(\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?` +
			`(/` + pathPattern + `*)*|/(` + pathPattern + `+(/` + pathPattern + `*)*)?|` + pathPattern + `+(/` +
			pathPattern + `*)*)` +
			`(\?(` + pathPattern + `|[/?])*)?(#(` + pathPattern + `|[/?])*)?`,
	)},
	"uuid": {
		"a UUID such as 123e4567-e89b-12d3-a456-426614174000",
		matches(`[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}`),
	},
}

// matches returns a function that reports whether a whole string matches a pattern.
func matches(pattern string) func(string) bool {
	return regexp.MustCompile(`\A(` + pattern + `)\z`).MatchString
}

func both(a, b func(string) bool) func(string) bool {
	return func(s string) bool { return a(s) && b(s) }
}

// isDay reports whether the date at the start of s exists.
func isDay(s string) bool {
	day, err := time.Parse(time.DateOnly, s[:len(time.DateOnly)])
	return err == nil && day.Year() > 0
}
