package apiservertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace-dev/millrace/object"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// podLogs holds container output. The cluster's mutex guards it.
type podLogs struct {
	lines   map[types.UID]map[string][]logLine // indexed by pod and container
	written chan struct{}                      // closed and replaced when lines are added
}

// logLine is one log line, including the newline.
type logLine struct {
	at   time.Time
	text string
}

// Log appends lines to the log of a pod's container, as served by GET pods/NAME/log. An empty container
// name means the pod's only container. Log fails with NotFound if there is no such pod, and with another
// error if the pod has no such container. A pod's logs are deleted along with it.
func (s *cluster) Log(pod object.Key, container, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, cur, err := s.lookup(podsResource, pod)
	if err != nil {
		return err
	}
	if container, err = containerOf(cur.obj.(*corev1.Pod), container); err != nil {
		return err
	}
	uid := cur.obj.GetUID()
	if s.logs.lines[uid] == nil {
		s.logs.lines[uid] = map[string][]logLine{}
	}
	now := time.Now()
	for line := range strings.Lines(text) {
		s.logs.lines[uid][container] = append(s.logs.lines[uid][container], logLine{now, strings.TrimSuffix(line, "\n") + "\n"})
	}
	close(s.logs.written)
	s.logs.written = make(chan struct{})
	return nil
}

// containerOf defaults and validates a container name.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var all []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		all = append(all, c.Name)
	}
	switch {
	case name == "" && len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	case name == "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", pod.Name, all))
	case !slices.Contains(all, name):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	return name, nil
}

// logRequest holds the parameters of a log request.
type logRequest struct {
	container  string
	follow     bool
	previous   bool
	timestamps bool
	tail       int64 // in lines; negative means all
	limit      int64 // in bytes; negative means no limit
	since      time.Time
}

func (c *call) logRequest() (l logRequest, err error) {
	query := c.r.URL.Query()
	l.container = query.Get("container")
	l.follow, l.previous, l.timestamps = boolParam(c.r, "follow"), boolParam(c.r, "previous"), boolParam(c.r, "timestamps")
	var errs field.ErrorList
	number := func(name string, least int64, why string) int64 {
		if !query.Has(name) || err != nil {
			return -1
		}
		n, parseErr := strconv.ParseInt(query.Get(name), 10, 64)
		if parseErr != nil {
			err = apierrors.NewBadRequest(parseErr.Error())
		} else if n < least {
			errs = append(errs, field.Invalid(field.NewPath(name), n, why))
		}
		return n
	}
	l.tail = number("tailLines", 0, "must be greater than or equal to 0")
	l.limit = number("limitBytes", 1, "must be greater than 0")
	seconds := number("sinceSeconds", 1, "must be greater than 0")
	if seconds > 0 {
		l.since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" && err == nil {
		if l.since, err = time.Parse(time.RFC3339, text); err != nil {
			err = apierrors.NewBadRequest(err.Error())
		}
	}
	if err == nil && len(errs) > 0 {
		err = apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, c.name, errs)
	}
	return l, err
}

// log sends a container's log as text and, if the request follows it, new lines as they are added.
func (c *call) log() error {
	want, err := c.logRequest()
	if err != nil {
		return err
	}
	pod, err := c.loggedPod()
	if err != nil {
		return err
	}
	if want.container, err = containerOf(pod, want.container); err != nil {
		return err
	}
	if pod.Spec.NodeName == "" && !c.logged(pod.UID) {
		c.w.WriteHeader(http.StatusNoContent) // nothing is running
		return nil
	}
	if want.previous {
		return apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", want.container, pod.Name))
	}
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusOK)
	for from := 0; ; {
		lines, more, over := c.logFrom(pod.UID, want.container, from)
		if err := c.writeLog(&want, lines, from == 0); err != nil || want.limit == 0 || !want.follow || over {
			return err
		}
		from += len(lines)
		if err := c.w.flush(); err != nil {
			return err
		}
		select {
		case <-more.written:
		case <-more.changed:
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

func (c *call) loggedPod() (*corev1.Pod, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	v, err := c.coll.stored(c.key())
	if err != nil {
		return nil, err
	}
	return v.obj.(*corev1.Pod), nil
}

// logged reports whether a pod has a log.
func (c *call) logged(uid types.UID) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return len(c.server.logs.lines[uid]) > 0
}

// growth holds the channels that are closed when a log may have grown or ended.
type growth struct{ written, changed chan struct{} }

// logFrom returns the lines from index first on, and whether the log is complete.
func (c *call) logFrom(uid types.UID, container string, first int) (lines []logLine, more growth, over bool) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := c.coll.stored(c.key())
	if err != nil || v.obj.GetUID() != uid {
		return nil, growth{}, true
	}
	switch v.obj.(*corev1.Pod).Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		over = true
	}
	lines = s.logs.lines[uid][container]
	return lines[min(first, len(lines)):], growth{s.logs.written, c.coll.changed}, over
}

// writeLog sends the lines selected by the request.
func (c *call) writeLog(want *logRequest, lines []logLine, first bool) error {
	if first {
		lines = slices.DeleteFunc(slices.Clone(lines), func(l logLine) bool { return l.at.Before(want.since) })
		if want.tail >= 0 {
			lines = lines[max(0, int64(len(lines))-want.tail):]
		}
	}
	for _, line := range lines {
		text := line.text
		if want.timestamps {
			text = line.at.UTC().Format(time.RFC3339Nano) + " " + text
		}
		if want.limit >= 0 {
			text = text[:min(int64(len(text)), want.limit)]
			want.limit -= int64(len(text))
		}
		if _, err := c.w.Write([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}
