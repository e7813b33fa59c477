package bridge

import (
	"bytes"
	"encoding/base64"
)

// DecodeBase64 decodes text strictly: each value has exactly one encoding. Unlike base64.Encoding.Strict, it
// rejects line breaks as well.
func DecodeBase64(e *base64.Encoding, text []byte) ([]byte, error) {
	if i := bytes.IndexAny(text, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	data := make([]byte, e.DecodedLen(len(text)))
	n, err := e.Strict().Decode(data, text)
	return data[:n], err
}
