/** The workflows of GitHub Actions, read and held to what they promise. They have not been run from here. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { isAtLeast } from '../../scripts/versions.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDER = join(ROOT, '.github/workflows')

const permissions = z.record(z.string(), z.enum(['read', 'write', 'none']))
const step = z.strictObject({
  name: z.string().optional(),
  id: z.string().optional(),
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.union([z.string(), z.boolean()])).optional(),
})
const job = z.strictObject({
  name: z.string().optional(),
  needs: z.string().optional(),
  'runs-on': z.string(),
  'timeout-minutes': z.number(),
  permissions: permissions.optional(),
  strategy: z
    .strictObject({ 'fail-fast': z.boolean(), matrix: z.strictObject({ node: z.array(z.string()) }) })
    .optional(),
  steps: z.array(step),
})
const workflow = z.strictObject({
  name: z.string(),
  on: z.record(z.string(), z.unknown()),
  permissions,
  concurrency: z.strictObject({ group: z.string(), 'cancel-in-progress': z.boolean() }).optional(),
  jobs: z.record(z.string(), job),
})

const read = (name: string) => workflow.parse(parse(readFileSync(join(FOLDER, name), 'utf8')))
const files = readdirSync(FOLDER)
const stepsOf = (name: string) => Object.values(read(name).jobs).flatMap(({ steps }) => steps)

describe.each(files)('%s', (name) => {
  it('has a shape that GitHub takes: each step runs a command or an action, not both', () => {
    for (const { uses, run } of stepsOf(name))
      expect([uses, run].filter((given) => given !== undefined)).toHaveLength(1)
  })

  it('pins each action to a commit and says which version that is', () => {
    const text = readFileSync(join(FOLDER, name), 'utf8')
    const uses = [...text.matchAll(/uses: (.+)$/gm)].map(([, action]) => action)
    expect(uses).toHaveLength(stepsOf(name).filter((one) => one.uses !== undefined).length)
    for (const action of uses) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  })

  it('may read and no more, but where a job says what else it takes', () => {
    expect(read(name).permissions).toEqual({ contents: 'read' })
  })
})

describe('ci.yml', () => {
  const { on, jobs } = read('ci.yml')

  it('runs .ci/run on every push to main and every pull request', () => {
    expect(on).toEqual({ push: { branches: ['main'] }, pull_request: null })
    expect(jobs.test?.steps.at(-1)).toEqual({ run: 'bash .ci/run' })
    expect(existsSync(join(ROOT, '.ci/run'))).toBe(true)
  })

  it('runs it on the oldest Node that package.json allows, on 22 and on 24', () => {
    const nodes = jobs.test?.strategy?.matrix.node ?? []
    expect(nodes.map((version) => Number.parseInt(version, 10))).toEqual([20, 22, 24])
    const { engines } = z
      .object({ engines: z.object({ node: z.string() }) })
      .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')))
    expect(engines.node).toBe(`>=${nodes[0]}`)
    expect(nodes.every((version) => isAtLeast(version.split('.').map(Number), [20]))).toBe(true)
  })

  it('publishes nothing', () => {
    const commands = stepsOf('ci.yml').map(({ run, uses }) => run ?? uses ?? '')
    expect(commands.filter((command) => /publish|push|login|release/.test(command))).toEqual([])
    for (const one of Object.values(jobs)) expect(one.permissions).toBeUndefined()
  })

  it('keeps what takes long to fetch or to build under a key that changes with it', () => {
    const key = String(stepsOf('ci.yml').find(({ uses }) => uses?.startsWith('actions/cache@'))?.with?.key)
    const named = [...key.matchAll(/'([^']+)'/g)].map(([, path]) => String(path))
    expect(named.length).toBeGreaterThan(2)
    for (const path of named) expect(existsSync(join(ROOT, path.replace(/\/\*\.ts$/, ''))), path).toBe(true)
  })
})

describe('release.yml', () => {
  const { on, jobs } = read('release.yml')

  it('publishes for the tag of a release only, not of one to try, and only what passed', () => {
    expect(on).toEqual({ push: { tags: ['v*.*.*', '!v*-*'] } })
    expect(jobs.npm?.needs).toBe('test')
    expect(jobs.image?.needs).toBe('test')
  })

  it('publishes to npm with provenance and without a stored password', () => {
    expect(jobs.npm?.permissions).toEqual({ contents: 'read', 'id-token': 'write' })
    expect(jobs.npm?.steps.at(-1)?.run).toBe('npm publish --provenance --access public')
    expect(readFileSync(join(FOLDER, 'release.yml'), 'utf8')).not.toMatch(/NPM_TOKEN|NODE_AUTH_TOKEN/)
  })
})
