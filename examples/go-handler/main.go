// Handles deliveries and sync items in Go: a workflow for each, on a task queue of its own.
//
// What a workflow returns is the result of the attempt, and an error fails it; a non-retryable one allows no other attempt.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const taskQueue = "go-handlers"

// Item is the input of HandleItem, as docs/behaviour/forwarding.md lists it.
type Item struct {
	ItemID     int     `json:"itemId"`
	EventClass string  `json:"eventClass"`
	ExternalID string  `json:"externalId"`
	Attempt    int     `json:"attempt"`
	Payload    Contact `json:"payload"`
}

// Contact is the payload of the provider's event class.
type Contact struct {
	Name string `json:"name"`
}

// Delivery is the input of HandleWebhook.
type Delivery struct {
	WebhookID int    `json:"webhookId"`
	EventType string `json:"eventType"`
	Attempt   int    `json:"attempt"`
	Body      string `json:"body"`
}

var contacts sync.Map

// StoreContact stores by the external id, so that a second attempt changes nothing.
func StoreContact(_ context.Context, externalID string, contact Contact) error {
	contacts.Store(externalID, contact)
	return nil
}

// HandleItem handles one attempt at a sync item.
func HandleItem(ctx workflow.Context, item Item) (map[string]any, error) {
	if item.Payload.Name == "" {
		return nil, temporal.NewNonRetryableApplicationError("a contact without a name is never stored", "Nameless", nil)
	}
	// The attempts are those of the row: this one says at once what went wrong.
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	if err := workflow.ExecuteActivity(ctx, StoreContact, item.ExternalID, item.Payload).Get(ctx, nil); err != nil {
		return nil, err
	}
	return map[string]any{"by": "go"}, nil
}

// HandleWebhook handles one attempt at a delivery.
func HandleWebhook(_ workflow.Context, delivery Delivery) (map[string]any, error) {
	return map[string]any{"by": "go", "event": delivery.EventType}, nil
}

func main() {
	address := os.Getenv("TEMPORAL_ADDRESS")
	if address == "" {
		address = client.DefaultHostPort
	}
	// An empty namespace is the default one. Give a cluster with TLS or API keys its client.Options here.
	connected, err := client.Dial(client.Options{HostPort: address, Namespace: os.Getenv("TEMPORAL_NAMESPACE")})
	if err != nil {
		log.Fatalln("Temporal does not answer:", err)
	}
	defer connected.Close()
	// A panic fails the attempt. By default the workflow would wait for a worker that does not panic, until its time is over.
	handlers := worker.New(connected, taskQueue, worker.Options{WorkflowPanicPolicy: worker.FailWorkflow})
	handlers.RegisterWorkflow(HandleItem)
	handlers.RegisterWorkflow(HandleWebhook)
	handlers.RegisterActivity(StoreContact)
	fmt.Println("polling")
	if err := handlers.Run(worker.InterruptCh()); err != nil {
		log.Fatalln("the worker has failed:", err)
	}
}
