/**
 * Prometheus' own `promtool test rules`: promtool's unittest.go from the module proxy, with scripts/promtool/main.go in the place of
 * the rest, which has the service discovery of every cloud and takes many times as long.
 *
 * Source: https://github.com/prometheus/prometheus/tree/main/cmd/promtool.
 */
import { copyFile, cp } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { builtByGo, versionOf } from './built-by-go.ts'

const SOURCE = fileURLToPath(new URL('../../scripts/promtool/', import.meta.url))
const MODULE = 'github.com/prometheus/prometheus'

/** It takes files with tests. */
export const { find: findPromtool } = builtByGo({
  name: 'promtool',
  version: versionOf(SOURCE),
  takes: 'minutes',
  maxSeconds: 1_200,
  async build(go, folder) {
    const sources = join(folder, 'sources')
    await cp(SOURCE, sources, { recursive: true })
    await go(['mod', 'download', MODULE], sources)
    const module = (await go(['list', '-m', '-f', '{{.Dir}}', MODULE], sources)).trim()
    await copyFile(join(module, 'cmd', 'promtool', 'unittest.go'), join(sources, 'unittest.go'))
    const binary = join(folder, 'promtool')
    await go(['build', '-mod=readonly', '-o', binary, '.'], sources)
    return binary
  },
})
