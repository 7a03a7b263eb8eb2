/** What the package exports to programs. */
export {
  ApiError, ConnectionError, createClient,
  type Client, type ClientOptions, type Created, type JobRequest, type JobStatusResource,
  type ResultRow,
} from './client.ts'
export {
  verifyWebhook, type VerifiedWebhook, type WebhookEvent, type WebhookRequest,
} from './verify-webhook.ts'
