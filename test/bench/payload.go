package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// A payload is the arguments of one caller's calls: {"text":"caller 00000 call 00000000 …"}. Only the digits of the
// call differ, so that a request is encoded once and then patched.
type payload struct {
	arguments []byte // JSON, with the number of call 0
	text      []byte // what the text decodes to, with the number of call 0
}

const (
	numberDigits = 8
	firstCall    = 10_000_000
)

// The texts: prose, code and log lines, with escapes and non-ASCII letters.
var samples = map[string]string{
	"mixed": "The naïve café plan — 12 €, due 3 May — was sent to 東京.\nfunc main() { " +
		"fmt.Println(\"hello, world\") }\n" +
		"2026-07-28 INFO served in 3 ms path=C:\\temp\\log.txt\tuser=\"Zoë\" and the rest of the line is plain " +
		"words that say little, as lines do.\n",
	"ascii": "The quick brown fox jumps over the lazy dog while 12 other foxes look on and say nothing of note " +
		"about any of it. ",
}

// newPayload returns the arguments of a caller, size bytes of JSON.
func newPayload(caller, size int, text string) (payload, error) {
	sample, ok := samples[text]
	if !ok {
		return payload{}, fmt.Errorf("-text: %q is neither mixed nor ascii", text)
	}
	prefix := fmt.Sprintf("caller %05d call %0*d: ", caller, numberDigits, firstCall)
	if least := len(`{"text":""}`) + len(prefix); size < least {
		return payload{}, fmt.Errorf("-sizes: %d is too small to tell calls apart, %d is the least", size, least)
	}
	arguments := append([]byte(`{"text":"`), prefix...)
	decoded := []byte(prefix)
	room := size - len(`"}`)
	letters := []rune(sample)
	escaped := make([][]byte, len(letters))
	for i, letter := range letters {
		escaped[i] = quoted(string(letter))
	}
	for i := 0; len(arguments)+len(escaped[i]) <= room; i = (i + 1) % len(letters) {
		arguments = append(arguments, escaped[i]...)
		decoded = utf8.AppendRune(decoded, letters[i])
	}
	padding := bytes.Repeat([]byte{'x'}, room-len(arguments))
	arguments = append(append(arguments, padding...), `"}`...)
	return payload{arguments, append(decoded, padding...)}, nil
}

// quoted returns the content of a JSON string without HTML escapes.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can always be encoded
	}
	return b.Bytes()[1 : b.Len()-2]
}

// number writes the digits of n to b.
func number(b []byte, n int) {
	for i := numberDigits - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// places returns the positions of n's digits in b.
func places(b []byte, n int) []int {
	digits := make([]byte, numberDigits)
	number(digits, n)
	var at []int
	for from := 0; ; {
		i := bytes.Index(b[from:], digits)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + numberDigits
	}
}
