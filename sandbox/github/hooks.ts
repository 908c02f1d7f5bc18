/** The webhooks that are registered at the repository: https://docs.github.com/en/rest/repos/webhooks */
import { z } from 'zod'
import { validationFailed } from './failures.ts'
import { parseBody } from './issue-input.ts'
import type { Answer } from './recorded.ts'

export interface Hook {
  readonly id: number
  active: boolean
  events: readonly string[]
  config: Readonly<Record<string, string>>
  readonly createdAt: string
  updatedAt: string
}

const FIRST_ID = 600_000_001
/** GitHub shows it so. */
const MASKED = '********'

const Config = z.record(z.string(), z.union([z.string(), z.number()]).transform(String))
const Input = z.looseObject({
  active: z.boolean().optional(),
  events: z.array(z.string()).min(1).optional(),
  config: Config.optional(),
})

export class Hooks {
  readonly #hooks = new Map<number, Hook>()
  readonly #now: () => Date
  #nextId = FIRST_ID

  constructor(now: () => Date) {
    this.#now = now
  }

  all(): readonly Hook[] {
    return [...this.#hooks.values()]
  }

  find(id: number): Hook | undefined {
    return this.#hooks.get(id)
  }

  create(text: string, path: string): Hook {
    const { active = true, events = ['push'], config = {} } = this.#read(text, 'POST', path)
    if (config.url === undefined) throw refused('POST', path, 'config', 'missing_field')
    for (const other of this.#hooks.values())
      if (other.config.url === config.url)
        throw refused('POST', path, 'base', 'custom', 'Hook already exists on this repository')
    const at = second(this.#now())
    const hook: Hook = { id: this.#nextId, active, events, config: withDefaults(config), createdAt: at, updatedAt: at }
    this.#nextId += 1
    this.#hooks.set(hook.id, hook)
    return hook
  }

  update(hook: Hook, text: string, path: string): Hook {
    const { active, events, config } = this.#read(text, 'PATCH', path)
    if (active !== undefined) hook.active = active
    if (events !== undefined) hook.events = events
    // What is given replaces all that was there.
    if (config !== undefined) hook.config = withDefaults(config)
    hook.updatedAt = second(this.#now())
    return hook
  }

  remove(hook: Hook): void {
    this.#hooks.delete(hook.id)
  }

  clear(): void {
    this.#hooks.clear()
  }

  #read(text: string, method: string, path: string): z.output<typeof Input> {
    const input = Input.safeParse(parseBody(text, method, path))
    if (!input.success) throw refused(method, path, String(input.error.issues[0]?.path[0] ?? 'base'), 'invalid')
    return input.data
  }
}

export function hookAnswer({ id, active, events, config, createdAt, updatedAt }: Hook, repositoryUrl: string): Answer {
  const url = `${repositoryUrl}/hooks/${id}`
  return {
    type: 'Repository',
    id,
    name: 'web',
    active,
    events: [...events],
    config: { ...config, ...(config.secret === undefined ? {} : { secret: MASKED }) },
    updated_at: updatedAt,
    created_at: createdAt,
    url,
    test_url: `${url}/test`,
    ping_url: `${url}/pings`,
    deliveries_url: `${url}/deliveries`,
    last_response: { code: null, status: 'unused', message: null },
  }
}

function withDefaults(config: Readonly<Record<string, string>>): Record<string, string> {
  return { content_type: 'form', insecure_ssl: '0', ...config }
}

function refused(
  method: string,
  path: string,
  field: string,
  code: 'missing_field' | 'invalid' | 'custom',
  message?: string,
) {
  return validationFailed([{ resource: 'Hook', field, code, ...(message && { message }) }], method, path)
}

const second = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`
