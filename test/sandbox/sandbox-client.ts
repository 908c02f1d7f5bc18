import type { SandboxOptions } from '../../sandbox/github/server.ts'
import { createGithubSandbox, SANDBOX_TOKEN } from '../../sandbox/github/server.ts'

export const WIDGETS = '/repos/octo-sandbox/widgets'

export interface SandboxClient {
  get(path: string, headers?: Record<string, string>): Promise<Response>
  /** Without a token. */
  anonymous(path: string): Promise<Response>
  /** @param headers beside the token's, or in its place */
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
  control(method: string, path: string, body?: unknown): Promise<Response>
}

/** A sandbox without a socket, and a caller that knows its token. */
export function openSandbox(options: SandboxOptions = {}): SandboxClient {
  const app = createGithubSandbox(options)
  const authorization = `Bearer ${options.token ?? SANDBOX_TOKEN}`
  const json = (body: unknown): { body?: string } => (body === undefined ? {} : { body: JSON.stringify(body) })
  return {
    get: async (path, headers = {}) => app.request(path, { headers: { authorization, ...headers } }),
    anonymous: async (path) => app.request(path),
    send: async (method, path, body, headers = {}) =>
      app.request(path, { method, headers: { authorization, ...headers }, ...json(body) }),
    control: async (method, path, body) => app.request(`/_sandbox${path}`, { method, ...json(body) }),
  }
}

export interface IssueAnswer {
  id: number
  number: number
  node_id: string
  title: string
  body: string | null
  state: 'open' | 'closed'
  state_reason: string | null
  comments: number
  html_url: string
  created_at: string
  updated_at: string
  closed_at: string | null
  closed_by?: { login: string } | null
  labels: { name: string; color: string }[]
  assignees: { login: string }[]
  pull_request?: { merged_at: string | null; html_url: string }
}

export async function read<T = IssueAnswer[]>(response: Response): Promise<T> {
  return (await response.json()) as T
}

/** `rel` → address of a `Link` header. */
export function links(response: Response): Record<string, string> {
  const header = response.headers.get('link') ?? ''
  const found = [...header.matchAll(/<([^>]+)>; rel="(\w+)"/g)].map(([, address, rel]) => [rel, address])
  return Object.fromEntries(found) as Record<string, string>
}
