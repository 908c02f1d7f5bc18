// Verifies a forwarded message by the maker's own library. It reads {"secret", "body", "headers"} from stdin.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	var message struct {
		Secret  string            `json:"secret"`
		Body    string            `json:"body"`
		Headers map[string]string `json:"headers"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&message); err != nil {
		log.Fatalln(err)
	}
	judge, err := standardwebhooks.NewWebhook(message.Secret)
	if err != nil {
		log.Fatalln(err)
	}
	headers := http.Header{}
	for name, value := range message.Headers {
		headers.Set(name, value)
	}
	if err := judge.Verify([]byte(message.Body), headers); err != nil {
		log.Fatalln(err)
	}
}
