/**
 * Takes the operations the sandbox answers out of GitHub's published OpenAPI description, with the schemas they need.
 *
 * The description's package is 385 MB unpacked, so it is no dependency: it is packed into a temporary folder, one file
 * of it is read, and what is kept goes to `sandbox/github/description.json`. Prose and examples are dropped; schemas
 * are kept as published.
 *
 *   npx tsx scripts/extract-github-description.ts [version]     (default: latest)
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const OPERATIONS: Record<string, readonly string[]> = {
  '/app/installations/{installation_id}/access_tokens': ['post'],
  '/repos/{owner}/{repo}': ['get'],
  '/repos/{owner}/{repo}/hooks': ['get', 'post'],
  '/repos/{owner}/{repo}/hooks/{hook_id}': ['patch', 'delete'],
  '/repos/{owner}/{repo}/hooks/{hook_id}/deliveries': ['get'],
  '/repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}': ['get'],
  '/repos/{owner}/{repo}/issues': ['get', 'post'],
  '/repos/{owner}/{repo}/issues/{issue_number}': ['get', 'patch'],
  '/repos/{owner}/{repo}/issues/comments': ['get'],
  '/repos/{owner}/{repo}/issues/{issue_number}/comments': ['get', 'post'],
  '/repos/{owner}/{repo}/issues/{issue_number}/timeline': ['get'],
  '/user': ['get'],
}

const PACKAGE = '@octokit/openapi'
const MEMBER = 'package/generated/api.github.com.json'
const TARGET = fileURLToPath(new URL('../sandbox/github/description.json', import.meta.url))

const PROSE = new Set([
  'description',
  'example',
  'examples',
  'tags',
  'x-github',
  'x-octokit',
  'x-github-breaking-changes',
])

type Json = null | boolean | number | string | Json[] | JsonObject
interface JsonObject {
  [key: string]: Json
}

const version = process.argv[2] ?? 'latest'
const published = readPublishedDescription(version)
const extracted = extract(published)
writeFileSync(TARGET, `${JSON.stringify(extracted, null, 2)}\n`)
const { schemas, parameters, responses } = extracted.components as Record<string, JsonObject>
console.log(
  `description ${(extracted.info as JsonObject).version}: ${countOperations()} operations, ` +
    `${Object.keys(schemas ?? {}).length} schemas, ${Object.keys(responses ?? {}).length} responses, ` +
    `${Object.keys(parameters ?? {}).length} parameters, ${readFileSync(TARGET).length} bytes`,
)

function readPublishedDescription(wanted: string): JsonObject {
  const folder = mkdtempSync(join(tmpdir(), 'github-description-'))
  try {
    const packed = execFileSync('npm', ['pack', `${PACKAGE}@${wanted}`, '--json'], {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const [archive] = JSON.parse(packed) as { filename: string }[]
    if (archive === undefined) throw new Error(`npm pack ${PACKAGE}@${wanted} named no file`)
    // npm 9 prints `@scope/name-1.0.0.tgz` here while the file is `scope-name-1.0.0.tgz`.
    const file = archive.filename.replace(/^@/, '').replace('/', '-')
    execFileSync('tar', ['-xzf', file, MEMBER], { cwd: folder })
    return JSON.parse(readFileSync(join(folder, MEMBER), 'utf8')) as JsonObject
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function extract(description: JsonObject): JsonObject {
  const info = description.info as JsonObject
  const paths: JsonObject = {}
  for (const [path, methods] of Object.entries(OPERATIONS)) {
    const published = (description.paths as JsonObject)[path] as JsonObject | undefined
    const kept: JsonObject = {}
    for (const method of methods) {
      const operation = published?.[method] as JsonObject | undefined
      if (operation === undefined) throw new Error(`The published description has no ${method.toUpperCase()} ${path}`)
      kept[method] = withoutProse(operation)
    }
    paths[path] = kept
  }
  const license = info.license ?? null
  return {
    openapi: description.openapi ?? null,
    info: { title: info.title ?? null, version: info.version ?? null, license, 'x-extracted-from': PACKAGE },
    paths,
    components: referencedComponents(paths, description),
  }
}

/** Every `#/components/<kind>/<name>` reachable from `paths`, in alphabetical order so that a refresh reads well in a diff. */
function referencedComponents(paths: JsonObject, description: JsonObject): JsonObject {
  const found = new Map<string, JsonObject>()
  const pending: Json[] = [paths]
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (Array.isArray(node)) pending.push(...node)
    else if (node !== null && typeof node === 'object') {
      const reference = node.$ref
      if (typeof reference === 'string' && !found.has(reference)) {
        const component = withoutProse(lookUp(reference, description))
        found.set(reference, component)
        pending.push(component)
      }
      pending.push(...Object.values(node))
    }
  }
  const components: JsonObject = {}
  for (const [reference, component] of [...found].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [kind, name] = reference.replace('#/components/', '').split('/') as [string, string]
    const ofKind = (components[kind] ?? {}) as JsonObject
    ofKind[name] = component
    components[kind] = ofKind
  }
  return components
}

function lookUp(reference: string, description: JsonObject): JsonObject {
  let node: Json | undefined = description
  for (const key of reference.replace('#/', '').split('/')) node = (node as JsonObject | undefined)?.[key]
  if (node === undefined) throw new Error(`The published description has no ${reference}`)
  return node as JsonObject
}

/** `names` is true inside a map whose keys are the API's own names: a property called `description` is no prose. */
function withoutProse(node: JsonObject, names = false): JsonObject {
  const kept: JsonObject = {}
  for (const [key, value] of Object.entries(node)) {
    if (!names && PROSE.has(key)) continue
    kept[key] = withoutProseIn(value, !names && (key === 'properties' || key === 'headers'))
  }
  return kept
}

function withoutProseIn(value: Json, names: boolean): Json {
  if (Array.isArray(value)) return value.map((item) => withoutProseIn(item, false))
  return value !== null && typeof value === 'object' ? withoutProse(value, names) : value
}

function countOperations(): number {
  return Object.values(OPERATIONS).reduce((count, methods) => count + methods.length, 0)
}
