package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// An answerCheck verifies the answers to one caller's calls: the ID and every byte of the echoed payload.
//
// The first answer is decoded and compared. It becomes the template for the following ones, which differ in the
// call's number only, so that checking 64 KiB costs a comparison of bytes. An answer that differs from the template
// is decoded, so that the template does not weaken the check.
type answerCheck struct {
	bare     bool   // answers are the payload alone, and no messages
	text     []byte // the decoded payload
	textAt   []int
	template []byte
	at       []int
	decoded  int // answers that were decoded
}

func newAnswerCheck(p payload) *answerCheck {
	return &answerCheck{text: bytes.Clone(p.text), textAt: places(p.text, firstCall)}
}

// newEchoCheck checks answers that a client library has decoded.
func newEchoCheck(p payload) *answerCheck {
	c := newAnswerCheck(p)
	c.bare = true
	return c
}

// check returns an error unless message is the answer to call n.
func (c *answerCheck) check(message []byte, n int) error {
	for _, i := range c.at {
		number(c.template[i:], n)
	}
	if len(c.template) > 0 && bytes.Equal(message, c.template) {
		return nil
	}
	c.decoded++
	if err := c.decode(message, n); err != nil {
		return err
	}
	c.template = append(c.template[:0], message...)
	c.at = places(message, n)
	return nil
}

func (c *answerCheck) decode(message []byte, n int) error {
	if c.bare {
		return c.echoed(message, n)
	}
	var answer struct {
		ID     json.RawMessage `json:"id"`
		Error  json.RawMessage `json:"error"`
		Result *struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
			StructuredContent json.RawMessage `json:"structuredContent"`
			IsError           bool            `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(message, &answer); err != nil {
		return fmt.Errorf("call %d: answer is not JSON: %w: %.200q", n, err, message)
	}
	if answer.Error != nil {
		return fmt.Errorf("call %d: answered with error %.300s", n, answer.Error)
	}
	if id := strconv.Itoa(n); string(answer.ID) != id {
		return fmt.Errorf("call %d: answer has id %.40s", n, answer.ID)
	}
	if answer.Result == nil || answer.Result.IsError {
		return fmt.Errorf("call %d: answer is no good result: %.300q", n, message)
	}
	arguments := []byte(answer.Result.StructuredContent)
	if len(answer.Result.Content) == 1 && answer.Result.Content[0].Type == "text" {
		arguments = []byte(answer.Result.Content[0].Text)
	}
	return c.echoed(arguments, n)
}

// echoed returns an error unless the arguments are those of call n.
func (c *answerCheck) echoed(arguments []byte, n int) error {
	var echoed struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(arguments, &echoed); err != nil {
		return fmt.Errorf("call %d: echoed arguments are not JSON: %w: %.200q", n, err, arguments)
	}
	for _, i := range c.textAt {
		number(c.text[i:], n)
	}
	if echoed.Text != string(c.text) {
		return fmt.Errorf("call %d: another payload came back: %.60q, want %.60q", n, echoed.Text, c.text)
	}
	return nil
}
