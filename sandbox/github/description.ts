import { readFileSync } from 'node:fs'

/** GitHub's published OpenAPI description, cut down to what the sandbox answers: scripts/extract-github-description.ts. */
export interface Description {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Record<string, unknown>>
}

export interface Operation {
  operationId: string
  externalDocs: { url: string }
  responses: Record<string, unknown>
}

export const description = JSON.parse(
  readFileSync(new URL('./description.json', import.meta.url), 'utf8'),
) as Description

/** The page GitHub names in `documentation_url` when this operation fails. */
export function documentationUrl(method: string, path: string): string {
  const operation = description.paths[path]?.[method.toLowerCase()]
  return operation?.externalDocs.url ?? 'https://docs.github.com/rest'
}
