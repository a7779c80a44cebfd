package config_test

import (
	"fmt"
	"log"

	"github.com/millrace-dev/millrace/rest/config"
)

func ExampleParse() {
	cfg, err := config.Parse([]byte(`
apiVersion: v1
kind: Config
current-context: staging
clusters:
- name: staging
  cluster: {server: "https://staging.example.com:6443"}
contexts:
- name: staging
  context: {cluster: staging, user: robot, namespace: builds}
users:
- name: robot
  user: {token: not-to-be-seen}
`))
	if err != nil {
		log.Fatal(err)
	}
	cfg.UserAgent = "builder/1.0"
	fmt.Println(cfg)
	// Output: {Host:"https://staging.example.com:6443", Namespace:"builds", BearerToken:[redacted], UserAgent:"builder/1.0"}
}

func ExampleLoadWith() {
	// Like kubectl --context staging --namespace builds.
	cfg, err := config.LoadWith(config.LoadOptions{Context: "staging", Namespace: "builds"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cfg.Host)
}
