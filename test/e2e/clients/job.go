// Runs one job with the generated client and prints what a test compares, as JSON.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"

	vj "example.com/verification-jobs"
)

const key = "7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a"

func must[T any](value T, _ any, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Whether the body has the signature t=...,v1=... by the secret, and is recent.
func isGenuine(body string) bool {
	parts := map[string]string{}
	for _, part := range strings.Split(os.Getenv("WEBHOOK_SIGNATURE"), ",") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	seconds, err := strconv.ParseInt(parts["t"], 10, 64)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(os.Getenv("WEBHOOK_SECRET")))
	mac.Write([]byte(parts["t"] + "." + body))
	isRecent := time.Since(time.Unix(seconds, 0)).Abs() <= 5*time.Minute
	signature, err := hex.DecodeString(parts["v1"])
	return err == nil && isRecent && hmac.Equal(mac.Sum(nil), signature)
}

func main() {
	configuration := vj.NewConfiguration()
	configuration.Servers[0].URL = os.Getenv("HOST")
	client := vj.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), vj.ContextAccessToken, os.Getenv("KEY"))

	request := vj.NewJobRequest("phone-validation", []vj.JobInput{
		{String: vj.PtrString("+12127365000")},
		{InputWithId: vj.NewInputWithId("(212) 736-5000", "customer-17")},
		{String: vj.PtrString("call me")},
	})
	request.SetCountryCode("US")
	request.SetForceFresh(true)
	request.SetMetadata(map[string]string{"language": "go"})
	create := client.JobsAPI.CreateJob(ctx).JobRequest(*request).IdempotencyKey(key)
	created := must(create.Execute())
	repeated := must(create.Execute())
	job := must(client.JobsAPI.GetJob(ctx, created.Id).Execute())
	for job.Status != "completed" && job.Status != "cancelled" && job.Status != "failed" {
		time.Sleep(50 * time.Millisecond)
		job = must(client.JobsAPI.GetJob(ctx, created.Id).Execute())
	}
	listed := must(client.JobsAPI.ListJobs(ctx).Limit(1).Execute())
	page := must(client.JobsAPI.GetResults(ctx, created.Id).Limit(2).Execute())
	rows := [][]any{}
	for _, row := range page.Data {
		rows = append(rows, []any{
			row.Row, row.Status, row.E164.Get(), row.Id.Get(),
		})
	}
	balance := must(client.AccountAPI.GetBalance(ctx).Execute())
	_, _, err := client.JobsAPI.GetJob(ctx, "job_unknown").Execute()
	refused := err.(*vj.GenericOpenAPIError).Model().(vj.JobNotFoundOrNotFoundError)

	output := map[string]any{
		"id":             created.Id,
		"repeated":       repeated.Id,
		"maxQuoteMicros": created.Preflight.MaxQuoteMicros,
		"status":         job.Status,
		"chargedMicros":  job.ChargedMicros,
		"metadata":       job.Metadata,
		"listed":         listed.Data[0].Id,
		"rows":           rows,
		"hasMore":        page.HasMore,
		"currency":       balance.Currency,
		"refused":        refused.Error.Code,
		"webhooks": []bool{
			isGenuine(os.Getenv("WEBHOOK_BODY")), isGenuine(os.Getenv("WEBHOOK_BODY") + " "),
		},
	}
	if err := json.NewEncoder(os.Stdout).Encode(output); err != nil {
		panic(err)
	}
}
