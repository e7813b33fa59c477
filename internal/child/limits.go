package child

import "fmt"

// Limits are how much of the machine a program may take, with all the programs that it starts in turn. What is beyond fails in
// there and nowhere else.
type Limits struct {
	// Memory is in bytes, swap included. One that wants more is killed by the system: see Process.OutOfMemory. 0: as much as
	// there is.
	Memory int
	// Processes is how many processes and threads there may be, at a time. Beyond it, starting one fails with EAGAIN. 0: as many
	// as the system allows.
	Processes int
	// Files is how many files each process may have open, sockets included. Beyond it, opening one fails with EMFILE. 0: 1,024 on
	// Linux, or what is ours if that is less.
	Files int
}

// usualFiles is how many files a process may have open if nobody says.
const usualFiles = 1024

// A LimitError is the error of a program that cannot be held to its limits, and so is not started.
type LimitError struct {
	// Limit is which: memory, processes or files.
	Limit string
	// Fix says what to do about it.
	Fix string
	err error
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("its limit of %s cannot be set: %v", e.Limit, e.err)
}

func (e *LimitError) Unwrap() error { return e.err }
