/** What a new provider can be made with; each is a contract of docs/writing-a-provider.md. */
export const PARTS = ['sync', 'webhooks', 'oauth', 'health', 'identity'] as const

export type Part = (typeof PARTS)[number]

/** What `make-provider` writes unless it is told otherwise. */
export const USUAL_PARTS: readonly Part[] = ['sync', 'webhooks', 'health']
