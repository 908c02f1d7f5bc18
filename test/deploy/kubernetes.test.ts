/** examples/kubernetes, read as Kubernetes reads it, against the configuration table and the programs that there are. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDER = join(ROOT, 'examples/kubernetes')

const key = z.strictObject({ name: z.string(), key: z.string() })
const probe = z.strictObject({
  httpGet: z.strictObject({ path: z.string(), port: z.string() }),
  periodSeconds: z.number(),
  timeoutSeconds: z.number().optional(),
  failureThreshold: z.number().optional(),
})
const container = z.strictObject({
  name: z.string(),
  image: z.string(),
  command: z.array(z.string()),
  envFrom: z.array(z.strictObject({ configMapRef: z.strictObject({ name: z.string() }) })),
  env: z.array(
    z.union([
      z.strictObject({ name: z.string(), value: z.string() }),
      z.strictObject({ name: z.string(), valueFrom: z.strictObject({ secretKeyRef: key }) }),
    ]),
  ),
  ports: z.array(z.strictObject({ name: z.string(), containerPort: z.number() })).default([]),
  startupProbe: probe.optional(),
  livenessProbe: probe.optional(),
  readinessProbe: probe.optional(),
  resources: z.strictObject({
    requests: z.strictObject({ cpu: z.string(), memory: z.string() }),
    limits: z.strictObject({ memory: z.string() }),
  }),
  securityContext: z.strictObject({
    readOnlyRootFilesystem: z.literal(true),
    allowPrivilegeEscalation: z.literal(false),
    capabilities: z.strictObject({ drop: z.tuple([z.literal('ALL')]) }),
  }),
  volumeMounts: z.array(z.strictObject({ name: z.string(), mountPath: z.string(), readOnly: z.boolean().optional() })),
})
const pod = z.strictObject({
  serviceAccountName: z.string(),
  enableServiceLinks: z.literal(false),
  restartPolicy: z.string().optional(),
  terminationGracePeriodSeconds: z.number(),
  securityContext: z.strictObject({
    runAsNonRoot: z.literal(true),
    runAsUser: z.number(),
    fsGroup: z.number(),
    seccompProfile: z.strictObject({ type: z.string() }),
  }),
  containers: z.tuple([container]),
  volumes: z.array(z.looseObject({ name: z.string() })),
})
const template = z.strictObject({
  metadata: z.strictObject({ labels: z.strictObject({ app: z.string() }) }),
  spec: pod,
})
const selector = z.strictObject({ matchLabels: z.strictObject({ app: z.string() }) })
const head = { metadata: z.strictObject({ name: z.string() }) }
/** With the label that an upgrade selects it by. */
const labelled = {
  metadata: z.strictObject({ name: z.string(), labels: z.strictObject({ app: z.string() }) }),
}
/** A key that is written wrong is refused, as by `kubectl apply --validate=strict`. */
const object = z.discriminatedUnion('kind', [
  z.strictObject({
    apiVersion: z.literal('v1'),
    kind: z.literal('ConfigMap'),
    ...head,
    data: z.record(z.string(), z.string()),
  }),
  z.strictObject({
    apiVersion: z.literal('v1'),
    kind: z.literal('ServiceAccount'),
    ...head,
    automountServiceAccountToken: z.literal(false),
  }),
  z.strictObject({
    apiVersion: z.literal('batch/v1'),
    kind: z.literal('Job'),
    ...labelled,
    spec: z.strictObject({ backoffLimit: z.number(), ttlSecondsAfterFinished: z.number(), template }),
  }),
  z.strictObject({
    apiVersion: z.literal('apps/v1'),
    kind: z.literal('Deployment'),
    ...labelled,
    spec: z.strictObject({
      replicas: z.number().min(2),
      selector,
      strategy: z.strictObject({ rollingUpdate: z.record(z.string(), z.number()) }),
      template,
    }),
  }),
  z.strictObject({
    apiVersion: z.literal('v1'),
    kind: z.literal('Service'),
    ...head,
    spec: z.strictObject({
      selector: z.strictObject({ app: z.string() }),
      ports: z.array(z.strictObject({ name: z.string(), port: z.number(), targetPort: z.string() })),
    }),
  }),
  z.strictObject({
    apiVersion: z.literal('policy/v1'),
    kind: z.literal('PodDisruptionBudget'),
    ...head,
    spec: z.strictObject({ minAvailable: z.number(), selector }),
  }),
])

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const { resources } = z
  .looseObject({ resources: z.array(z.string()) })
  .parse(parse(read('examples/kubernetes/kustomization.yaml')))
const objects = resources.flatMap((file) =>
  parseAllDocuments(read(`examples/kubernetes/${file}`)).map((document) => object.parse(document.toJS())),
)
const config = objects.flatMap((each) => (each.kind === 'ConfigMap' ? [each] : []))
const pods = objects.flatMap((each) =>
  each.kind === 'Deployment' || each.kind === 'Job' ? [{ name: each.metadata.name, ...each.spec.template }] : [],
)
const containerOf = (name: string) => {
  const found = pods.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no pod of ${name}`)
  return { ...found.spec, ...found.spec.containers[0] }
}

describe('examples/kubernetes', () => {
  it('applies every manifest that is there', () => {
    const files = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml') && name !== 'kustomization.yaml')
    expect([...resources].sort()).toEqual(files.sort())
    expect(pods.map(({ name }) => name)).toEqual(['integrations-migrate', 'integrations-api', 'integrations-worker'])
  })

  it('sets variables only that the configuration table has', () => {
    const table = read('docs/configuration.md')
    const names = [
      ...config.flatMap(({ data }) => Object.keys(data)),
      ...pods.flatMap(({ spec }) => spec.containers[0].env.map(({ name }) => name)),
    ]
    expect(names.length).toBeGreaterThan(10)
    expect(names.filter((name) => !table.includes(`\`${name}\``))).toEqual([])
  })

  it.each(pods.map(({ name, spec }) => [name, spec] as const))('%s: names what there is', (_, spec) => {
    const [{ command, envFrom, env, volumeMounts, ports, ...probes }] = spec.containers
    expect(envFrom.map(({ configMapRef }) => configMapRef.name)).toEqual(config.map(({ metadata }) => metadata.name))
    const accounts = objects.flatMap((each) => (each.kind === 'ServiceAccount' ? [each.metadata.name] : []))
    expect(accounts).toContain(spec.serviceAccountName)
    expect(volumeMounts.map(({ name }) => name)).toEqual(spec.volumes.map(({ name }) => name))
    // The program is one that the build makes of src/.
    expect(read(command[1]?.replace(/^dist\/(.*)\.js$/, 'src/$1.ts') ?? '')).not.toBe('')
    // Each secret is one that the README makes.
    const readme = read('examples/kubernetes/README.md')
    for (const one of env)
      if ('valueFrom' in one) expect(readme).toContain(`--from-literal=${one.valueFrom.secretKeyRef.key}=`)
    expect(readme).toContain('kubectl create secret generic integrations ')
    const given = [probes.startupProbe, probes.livenessProbe, probes.readinessProbe].filter(
      (each) => each !== undefined,
    )
    for (const { httpGet } of given) expect(ports.map(({ name }) => name)).toContain(httpGet.port)
  })

  it('mounts the key file where the configuration looks for it, for its user to read', () => {
    const path = config[0]?.data.INTEGRATIONS_ENCRYPTION_KEYS_FILE
    for (const { spec } of pods) {
      const keys = spec.volumes.find(({ name }) => name === 'keys') as unknown as {
        secret: { secretName: string; items: { path: string }[]; defaultMode: number }
      }
      const at = spec.containers[0].volumeMounts.find(({ name }) => name === 'keys')
      expect(`${at?.mountPath}/${keys.secret.items[0]?.path}`).toBe(path)
      expect(keys.secret.defaultMode).toBe(0o440)
    }
  })

  it('asks each process for its health where it answers', () => {
    const api = containerOf('integrations-api')
    const worker = containerOf('integrations-worker')
    const data = config[0]?.data ?? {}
    expect(api.livenessProbe?.httpGet.path).toBe('/operator/api/v1/healthz')
    expect(api.readinessProbe?.httpGet.path).toBe('/operator/api/v1/readyz?exclude=temporal')
    expect(api.ports).toEqual([{ name: 'http', containerPort: Number(data.PORT) }])
    expect(worker.livenessProbe?.httpGet.path).toBe('/healthz')
    expect(worker.ports).toEqual([{ name: 'metrics', containerPort: Number(data.INTEGRATIONS__METRICS__PORT) }])
    // Reachable from outside of the container.
    expect(data.HOST).toBe('0.0.0.0')
  })

  it('gives each process the time that its end takes', () => {
    const api = containerOf('integrations-api')
    const drain = api.env.find(({ name }) => name === 'API_DRAIN_SECONDS')
    expect(api.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      Number(drain !== undefined && 'value' in drain ? drain.value : Number.NaN) + 25,
    )
    expect(containerOf('integrations-worker').terminationGracePeriodSeconds).toBeGreaterThanOrEqual(60)
  })

  it('is upgraded in the order of docs/upgrading.md: tables, workers, APIs', () => {
    for (const each of objects)
      if (each.kind === 'Deployment' || each.kind === 'Job')
        expect(each.metadata.labels).toEqual({ app: each.metadata.name })
    const commands = [...read('examples/kubernetes/README.md').matchAll(/^kubectl .*$/gm)].map(([line]) => line)
    expect(commands).toEqual([
      'kubectl delete job integrations-migrate --ignore-not-found',
      "kubectl apply -k examples/kubernetes -l 'app notin (integrations-worker, integrations-api)'",
      'kubectl wait --for=condition=complete --timeout=15m job/integrations-migrate',
      'kubectl apply -k examples/kubernetes -l app=integrations-worker',
      'kubectl rollout status deployment/integrations-worker',
      'kubectl apply -k examples/kubernetes',
    ])
  })

  it('selects pods that there are', () => {
    const labels = pods.map(({ metadata }) => metadata.labels.app)
    for (const each of objects) {
      if (each.kind === 'Service') expect(labels).toContain(each.spec.selector.app)
      if (each.kind === 'Deployment') expect(each.spec.template.metadata.labels).toEqual(each.spec.selector.matchLabels)
      if (each.kind === 'PodDisruptionBudget') expect(labels).toContain(each.spec.selector.matchLabels.app)
    }
  })
})
