package config

import (
	"fmt"
	"io"
	"os"
)

// maxFile bounds the files that a configuration names, in bytes: kubeconfigs of
// hundreds of clusters and bundles of authorities are well below.
const maxFile = 16 << 20

// ReadFile is os.ReadFile for a file that a configuration names, which may be anything: more
// than 16 MiB are an error.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}
