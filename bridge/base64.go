package bridge

import (
	"bytes"
	"encoding/base64"
)

// DecodeBase64 returns what a text in base64 stands for. No other text stands for the same: nothing is left over in the last character, and
// there are no ends of lines, which Go's decoder skips wherever they are.
func DecodeBase64(e *base64.Encoding, text []byte) ([]byte, error) {
	if i := bytes.IndexAny(text, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	data := make([]byte, e.DecodedLen(len(text)))
	n, err := e.Strict().Decode(data, text)
	return data[:n], err
}
