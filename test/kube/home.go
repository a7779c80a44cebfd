package main

import (
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// home is an API server's directory, which contains its data, keys, tokens, kubeconfig and log. Existing
// files are kept, so after a restart clients see the same server.
type home struct {
	dir         string // absolute; also the working directory of the process
	kubeconfig  string
	log         string
	logFile     *os.File
	lockFile    *os.File
	adminToken  string
	nobodyToken string
}

// openHome creates or reopens the directory and makes it the working directory. From then on, everything
// that kube-apiserver writes to stderr goes to the log. ownStderr is true if the original stderr is a
// terminal rather than the log.
func openHome(dir, kubeconfig string, ownStderr bool) (*home, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	h := &home{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), log: filepath.Join(dir, "server.log")}
	if kubeconfig != "" {
		if h.kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// etcd listens on a Unix socket with a relative path, because an absolute path may exceed the system's
	// limit of 108 bytes.
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	if err := h.openLog(ownStderr); err != nil {
		return nil, err
	}
	if err := h.lock(); err != nil {
		return nil, err
	}
	if err := h.makeKeys(); err != nil {
		return nil, fmt.Errorf("make keys in %s: %w", dir, err)
	}
	if err := h.makeTokens(); err != nil {
		return nil, fmt.Errorf("make tokens in %s: %w", dir, err)
	}
	return h, nil
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }
func (h *home) caFile() string          { return h.path("ca.crt") }

// openLog sends the libraries' logs to a file. They all write to os.Stderr by default, and some cannot
// be configured otherwise. A runtime crash is written to both the log and the original stderr.
func (h *home) openLog(ownStderr bool) error {
	f, err := os.OpenFile(h.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if ownStderr {
		if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	h.logFile = f
	os.Stderr = f
	return nil
}

func (h *home) close() {
	h.logFile.Close()
	h.lockFile.Close()
}

// lock reserves the directory for this process until the process exits for any reason. The file contains
// the process ID. Two processes creating keys at the same time would mix them up, and etcd waits forever
// for files locked by another etcd.
func (h *home) lock() error {
	f, err := os.OpenFile(h.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", h.dir, err)
		}
		text, err := io.ReadAll(io.LimitReader(f, 20))
		if err != nil {
			return err
		}
		return fmt.Errorf("another server is running in %s, process %s: stop it or choose another directory", h.dir, strings.TrimSpace(string(text)))
	}
	h.lockFile = f
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return err
}

// writeFile writes a file atomically. If the process dies or the disk is full, the file is complete or
// missing.
func writeFile(name string, text []byte) error {
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// makeTokens reads the tokens from an earlier run or creates new ones, in the format of --token-auth-file:
// token, user, uid, groups.
func (h *home) makeTokens() error {
	name := h.path("tokens.csv")
	f, err := os.Open(name)
	if err == nil {
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			return err
		}
		if len(rows) != 2 {
			return fmt.Errorf("%s has %d lines instead of 2: remove it", name, len(rows))
		}
		h.adminToken, h.nobodyToken = rows[0][0], rows[1][0]
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h.adminToken, h.nobodyToken = rand.Text(), rand.Text()
	return writeFile(name, fmt.Appendf(nil, "%s,admin,1,system:masters\n%s,nobody,2,strangers\n", h.adminToken, h.nobodyToken))
}

// lastPort returns the port used by the last run in this directory, or 0.
func (h *home) lastPort() (int, error) {
	text, err := os.ReadFile(h.path("port"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s does not contain a port: remove it: %w", h.path("port"), err)
	}
	return port, nil
}

// keepPort saves the port for the next run.
func (h *home) keepPort(port int) error {
	return writeFile(h.path("port"), fmt.Appendln(nil, port))
}

// writeKubeconfig writes the kubeconfig with all data inline.
func (h *home) writeKubeconfig(url string) error {
	ca, err := os.ReadFile(h.caFile())
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(h.path("admin.crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(h.path("admin.key"))
	if err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["millrace"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: h.adminToken}
	c.AuthInfos["admin-cert"] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.AuthInfos["nobody"] = &clientcmdapi.AuthInfo{Token: h.nobodyToken}
	for user := range c.AuthInfos {
		c.Contexts[user] = &clientcmdapi.Context{Cluster: "millrace", AuthInfo: user}
	}
	c.CurrentContext = "admin"
	return clientcmd.WriteToFile(*c, h.kubeconfig)
}
