/** docker-compose.yml as Docker Compose reads it, in a folder of the test's own, with a .env of the test's own. */
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { run } from '../../dev/local-process.ts'
import { findComposeResolver } from '../support/compose-resolver.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const RESOLVE_SECONDS = 30

const service = z.object({
  image: z.string(),
  pull_policy: z.string().optional(),
  build: z.object({ context: z.string(), dockerfile: z.string() }).optional(),
  command: z.array(z.string()).nullish(),
  entrypoint: z.array(z.string()).nullish(),
  environment: z.record(z.string(), z.string().nullable()).default({}),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
  healthcheck: z.object({ test: z.array(z.string()) }).optional(),
  ports: z.array(z.object({ host_ip: z.string().optional(), published: z.string(), target: z.number() })).default([]),
  secrets: z.array(z.object({ source: z.string(), target: z.string() })).default([]),
  configs: z.array(z.object({ source: z.string(), target: z.string() })).default([]),
  network_mode: z.string().optional(),
  stop_grace_period: z.string().optional(),
  read_only: z.boolean().default(false),
  restart: z.string().optional(),
})
const model = z.object({
  services: z.record(z.string(), service),
  configs: z.record(z.string(), z.object({ content: z.string() })),
  secrets: z.record(z.string(), z.object({ file: z.string() })),
})

export type ComposeService = z.infer<typeof service>
export type ComposeFile = z.infer<typeof model>

/** @param env what stands in .env; null: there is no such file. @throws with what Docker Compose says of the file */
export async function resolveCompose(env: string | null, override?: string): Promise<ComposeFile> {
  const folder = await mkdtemp(join(tmpdir(), 'compose-'))
  try {
    await copyFile(join(ROOT, 'docker-compose.yml'), join(folder, 'docker-compose.yml'))
    if (env !== null) await writeFile(join(folder, '.env'), env)
    if (override !== undefined) await writeFile(join(folder, 'docker-compose.override.yml'), override)
    const { code, output } = await run(await findComposeResolver(), [], {
      cwd: folder,
      // Nothing of the environment counts but .env.
      env: {},
      seconds: RESOLVE_SECONDS,
    })
    if (code !== 0) throw new Error(output.trim())
    return model.parse(JSON.parse(output))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** How long an engine waits for a service's end before it kills it: `1m30s`, as Go writes a duration. */
export function graceSecondsOf(file: ComposeFile, name: string): number {
  const given = serviceOf(file, name).stop_grace_period ?? ''
  const [, minutes = '0', seconds = '0'] = /^(?:(\d+)m)?(\d+)s$/.exec(given) ?? []
  return Number(minutes) * 60 + Number(seconds)
}

export function serviceOf(file: ComposeFile, name: string): ComposeService {
  const found = file.services[name]
  if (found === undefined) throw new Error(`docker-compose.yml has no service ${name}`)
  return found
}
