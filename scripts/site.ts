/** `npm run site`: makes the site of the documentation in `.data/site/dist`, without a network. With `--serve` it shows it, too. */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildSite } from './site/build.ts'
import { serveSite } from './site/serve.ts'

const PREVIEW_PORT = 4173

const { values } = parseArgs({
  options: { serve: { type: 'boolean', default: false }, base: { type: 'string', default: '/' } },
})
if (!/^\/([\w.-]+\/)*$/.test(values.base)) {
  console.error(`--base is the path of the site, with a slash at both ends, such as /docs/. Given: ${values.base}`)
  process.exit(2)
}
const startedAt = performance.now()
const { dist, pages } = await buildSite({ root: fileURLToPath(new URL('..', import.meta.url)), base: values.base })
console.log(`${pages} pages in ${Math.round((performance.now() - startedAt) / 1000)} s: ${dist}`)
if (values.serve) console.log(`Shown at ${(await serveSite(dist, values.base, PREVIEW_PORT)).url} until Ctrl-C.`)
