// Command tcpload is both ends of the TCP bench: the target behind every tunnel and the clients in front of it.
//
// It shares the machine's cores with the tunnels, so it does little: streams are sent with sendfile from one
// file and received with MSG_TRUNC, which counts bytes without copying them. Both ends are one process, so
// each stream's two counters are compared at its end.
//
// It prints {"port":N}, the port of the target, and then one line of JSON for each line of JSON on its input.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// First byte of a connection: what the target does with it.
const (
	kindEcho = 'E' // Everything comes back, this byte too.
	kindUp   = 'U' // The target receives a stream; a header follows.
	kindDown = 'D' // The target sends a stream; a header follows.
)

const (
	headerBytes  = 7 // kind (1 byte) | number of the run (u32, big-endian) | index of the stream (u16)
	patternBytes = 4<<20 - 1021
	sendBytes    = 1 << 20
	receiveBytes = 1 << 20
	verifyBytes  = 128 << 10
	settle       = 500 * time.Millisecond
	patience     = 10 * time.Second
	latencies    = 4 << 20
)

// A command of the bench.
type command struct {
	// "streams", "sessions" or "pingpong".
	Load    string  `json:"load"`
	Port    int     `json:"port"`
	Seconds float64 `json:"seconds"`
	// Streams or sessions at a time.
	AtOnce int  `json:"atOnce"`
	Up     bool `json:"up"`
	// Whether received bytes are compared with what was sent; costs time.
	Verify bool `json:"verify"`
}

// What a command came to. Units that do not apply are zero.
type result struct {
	// Length of the measured time.
	Seconds float64 `json:"seconds"`
	// Bytes received in the measured time, of all streams.
	Bytes int64 `json:"bytes"`
	// Bytes received from the first to the last one.
	TotalBytes int64 `json:"totalBytes"`
	// Bytes received by the slowest and the fastest stream in the measured time.
	Slowest int64 `json:"slowest"`
	Fastest int64 `json:"fastest"`
	// Sessions or round trips.
	Count  int64    `json:"count"`
	P50Us  float64  `json:"p50Us"`
	P99Us  float64  `json:"p99Us"`
	Errors []string `json:"errors"`
}

// A stream, known to both ends.
type stream struct {
	sent, received atomic.Int64
	// Result of the target's end.
	targetEnd chan error
}

// The streams of one command.
type run struct {
	id      uint32
	verify  bool
	stop    atomic.Bool
	streams []*stream
	// Closed streams fail after this.
	deadline time.Time
}

var (
	pattern     = make([]byte, patternBytes)
	patternFile *os.File
	// The run that is on; the target looks streams up here.
	current atomic.Pointer[run]
	// Connections of the target that are open.
	open atomic.Int64
	// MSG_TRUNC writes nothing here.
	nowhere [receiveBytes]byte
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "tcpload:", err)
		os.Exit(1)
	}
}

func serve() error {
	rand.New(rand.NewSource(1)).Read(pattern)
	file, err := os.CreateTemp("", "tcpload-")
	if err != nil {
		return err
	}
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	if _, err := file.Write(pattern); err != nil {
		return err
	}
	patternFile = file
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go accept(listener)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]int{"port": listener.Addr().(*net.TCPAddr).Port}); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for number := uint32(1); in.Scan(); number++ {
		var c command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return err
		}
		if err := out.Encode(execute(c, number)); err != nil {
			return err
		}
	}
	return in.Err()
}

func execute(c command, number uint32) result {
	var r result
	switch c.Load {
	case "streams":
		r = measureStreams(c, number)
	case "sessions":
		r = measureSessions(c)
	case "pingpong":
		r = measurePingPong(c)
	default:
		r.Errors = append(r.Errors, "unknown load "+c.Load)
	}
	for end := time.Now().Add(patience); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Errors = append(r.Errors, fmt.Sprintf("%d connections of the target are still open", open.Load()))
			break
		}
	}
	if r.Errors == nil {
		r.Errors = []string{}
	}
	return r
}

func accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		open.Add(1)
		go func() {
			defer open.Add(-1)
			defer conn.Close()
			answer(conn.(*net.TCPConn))
		}()
	}
}

// The target's end of one connection.
func answer(conn *net.TCPConn) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(conn, header[:1]); err != nil {
		return
	}
	if header[0] == kindEcho {
		echo(conn, header[:])
		return
	}
	if _, err := io.ReadFull(conn, header[1:]); err != nil {
		return
	}
	r, index := current.Load(), int(binary.BigEndian.Uint16(header[5:]))
	if r == nil || r.id != binary.BigEndian.Uint32(header[1:]) || index >= len(r.streams) {
		return
	}
	s := r.streams[index]
	if header[0] == kindUp {
		s.targetEnd <- r.receive(conn, s)
	} else {
		s.targetEnd <- r.send(conn, s)
	}
}

func echo(conn *net.TCPConn, buffer []byte) {
	for n := 1; ; {
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
		var err error
		if n, err = conn.Read(buffer); err != nil {
			return
		}
	}
}

// Sends until the run stops, then ends the stream.
func (r *run) send(conn *net.TCPConn, s *stream) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(r.deadline); err != nil {
		return err
	}
	var n int
	var failure error
	var at int64
	step := func(fd uintptr) bool {
		for {
			n, failure = syscall.Sendfile(int(fd), int(patternFile.Fd()), &at, sendBytes)
			if failure != syscall.EINTR {
				return failure != syscall.EAGAIN
			}
		}
	}
	for !r.stop.Load() {
		if err := raw.Write(step); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if failure != nil {
			return fmt.Errorf("sendfile: %w", failure)
		}
		s.sent.Add(int64(n))
		if at >= patternBytes {
			at = 0
		}
	}
	return conn.CloseWrite()
}

// Receives until the stream ends.
func (r *run) receive(conn *net.TCPConn, s *stream) error {
	if err := conn.SetDeadline(r.deadline); err != nil {
		return err
	}
	if r.verify {
		return compare(conn, s)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var n uintptr
	var failure syscall.Errno
	step := func(fd uintptr) bool {
		for {
			n, _, failure = syscall.Syscall6(syscall.SYS_RECVFROM, fd,
				uintptr(unsafe.Pointer(&nowhere[0])), receiveBytes, syscall.MSG_TRUNC, 0, 0)
			if failure != syscall.EINTR {
				return failure != syscall.EAGAIN
			}
		}
	}
	for {
		if err := raw.Read(step); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if failure != 0 {
			return fmt.Errorf("receive: %w", failure)
		}
		if n == 0 {
			return nil
		}
		s.received.Add(int64(n))
	}
}

// Receives until the stream ends, and looks at every byte.
func compare(conn *net.TCPConn, s *stream) error {
	buffer := make([]byte, verifyBytes)
	for at := 0; ; {
		n, err := conn.Read(buffer)
		for got := buffer[:n]; len(got) > 0; {
			part := len(got)
			if part > patternBytes-at {
				part = patternBytes - at
			}
			if !bytes.Equal(got[:part], pattern[at:at+part]) {
				return fmt.Errorf("wrong bytes within %d after %d", n, s.received.Load())
			}
			got, at = got[part:], (at+part)%patternBytes
		}
		s.received.Add(int64(n))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
}

func dial(port int) (*net.TCPConn, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), patience)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// The client's end of one stream; waits for the target's.
func (r *run) client(c command, index int) error {
	s := r.streams[index]
	conn, err := dial(c.Port)
	if err != nil {
		return err
	}
	defer conn.Close()
	var header [headerBytes]byte
	header[0] = kindDown
	if c.Up {
		header[0] = kindUp
	}
	binary.BigEndian.PutUint32(header[1:], r.id)
	binary.BigEndian.PutUint16(header[5:], uint16(index))
	if _, err := conn.Write(header[:]); err != nil {
		return err
	}
	if c.Up {
		err = r.send(conn, s)
	} else {
		err = r.receive(conn, s)
	}
	if err != nil {
		return fmt.Errorf("stream %d, client: %w", index, err)
	}
	select {
	case err = <-s.targetEnd:
	case <-time.After(time.Until(r.deadline)):
		err = errors.New("has not ended")
	}
	if err != nil {
		return fmt.Errorf("stream %d, target: %w", index, err)
	}
	if sent, received := s.sent.Load(), s.received.Load(); sent != received {
		return fmt.Errorf("stream %d: %d bytes sent, %d received", index, sent, received)
	}
	return nil
}

func measureStreams(c command, number uint32) (result result) {
	length := time.Duration(c.Seconds * float64(time.Second))
	r := &run{id: number, verify: c.Verify, deadline: time.Now().Add(length + settle + 3*patience)}
	for len(r.streams) < c.AtOnce {
		r.streams = append(r.streams, &stream{targetEnd: make(chan error, 1)})
	}
	current.Store(r)
	defer current.Store(nil)
	failures := newFailures()
	var clients sync.WaitGroup
	for index := range r.streams {
		clients.Add(1)
		go func(index int) {
			defer clients.Done()
			failures.add(r.client(c, index))
		}(index)
	}
	for end := time.Now().Add(patience); !allStarted(r.streams); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			failures.add(errors.New("not all streams have started"))
			break
		}
	}
	time.Sleep(settle)
	before, start := received(r.streams), time.Now()
	time.Sleep(length)
	after, end := received(r.streams), time.Now()
	r.stop.Store(true)
	clients.Wait()
	result.Seconds = end.Sub(start).Seconds()
	for index := range r.streams {
		got := after[index] - before[index]
		result.Bytes += got
		if got > result.Fastest {
			result.Fastest = got
		}
		if index == 0 || got < result.Slowest {
			result.Slowest = got
		}
		result.TotalBytes += r.streams[index].received.Load()
	}
	result.Errors = failures.all
	return result
}

func allStarted(streams []*stream) bool {
	for _, s := range streams {
		if s.received.Load() == 0 {
			return false
		}
	}
	return true
}

func received(streams []*stream) []int64 {
	counts := make([]int64, len(streams))
	for i, s := range streams {
		counts[i] = s.received.Load()
	}
	return counts
}

// Opens sessions one after another in each of the workers: connect, a byte each way, close.
func measureSessions(c command) (result result) {
	length := time.Duration(c.Seconds * float64(time.Second))
	start := time.Now()
	failures := newFailures()
	var count atomic.Int64
	var workers sync.WaitGroup
	for i := 0; i < c.AtOnce; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for time.Since(start) < length {
				if err := session(c.Port); err != nil {
					failures.add(err)
					time.Sleep(10 * time.Millisecond)
					continue
				}
				count.Add(1)
			}
		}()
	}
	workers.Wait()
	result.Seconds = time.Since(start).Seconds()
	result.Count = count.Load()
	result.Errors = failures.all
	return result
}

func session(port int) error {
	conn, err := dial(port)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buffer := [1]byte{kindEcho}
	return exchange(conn, buffer[:])
}

func exchange(conn *net.TCPConn, buffer []byte) error {
	if _, err := conn.Write(buffer); err != nil {
		return err
	}
	buffer[0] = 0
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return err
	}
	if buffer[0] != kindEcho {
		return fmt.Errorf("byte 0x%02x came back for 0x%02x", buffer[0], kindEcho)
	}
	return nil
}

// One byte there and back on one connection, again and again.
func measurePingPong(c command) (result result) {
	fail := func(err error) {
		if err != nil {
			result.Errors = append(result.Errors, err.Error())
		}
	}
	conn, err := dial(c.Port)
	if err != nil {
		fail(err)
		return result
	}
	defer conn.Close()
	length := time.Duration(c.Seconds * float64(time.Second))
	fail(conn.SetDeadline(time.Now().Add(settle + length + patience)))
	times := make([]float64, 0, latencies)
	buffer := [1]byte{kindEcho}
	first := time.Now()
	for last := first; last.Sub(first) < settle+length && len(times) < latencies; {
		if err := exchange(conn, buffer[:]); err != nil {
			fail(err)
			break
		}
		now := time.Now()
		if last.Sub(first) >= settle {
			times = append(times, float64(now.Sub(last).Nanoseconds())/1e3)
		}
		last = now
	}
	result.Seconds = time.Since(first).Seconds() - settle.Seconds()
	if len(times) > 0 {
		sort.Float64s(times)
		result.Count = int64(len(times))
		result.P50Us = times[len(times)/2]
		result.P99Us = times[len(times)*99/100]
	}
	return result
}

// Errors of many goroutines; only the first of each text is kept.
type failures struct {
	lock sync.Mutex
	seen map[string]bool
	all  []string
}

func newFailures() *failures {
	return &failures{seen: map[string]bool{}}
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if text := err.Error(); !f.seen[text] {
		f.seen[text] = true
		f.all = append(f.all, text)
	}
}
