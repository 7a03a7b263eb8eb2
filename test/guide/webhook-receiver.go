// Answers whether events are genuine, with isGenuine of deploy/docs/webhooks.md, which a test appends.
package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	var cases []struct {
		Headers map[string]string
		Body    string
		Keys    []string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	answers := []bool{}
	for _, one := range cases {
		headers := http.Header{}
		for name, value := range one.Headers {
			headers.Set(name, value)
		}
		answers = append(answers, isGenuine(headers, []byte(one.Body), one.Keys))
	}
	_ = json.NewEncoder(os.Stdout).Encode(answers)
}
