/** The GitHub adapter: `durable-integrations/github`. */
export { GitHubCredentials, GitHubMetadata } from './client.ts'
export { GitHubIssue, GitHubUser } from './data.ts'
export { GitHubIssueSynced, GitHubWebhookReceived } from './events.ts'
export { GitHubProvider } from './provider.ts'
