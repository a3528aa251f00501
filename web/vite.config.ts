// Builds the page into dist/, which the service embeds. In development, /v1 goes to a service that runs.
import { defineConfig } from 'vite'

const service = process.env.NEXUS_DEV_SERVICE ?? 'http://127.0.0.1:4004'
const token = process.env.NEXUS_DEV_TOKEN

export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2022',
    // The page's own policy allows no scripts or fonts from data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // One script. One that is loaded later would come from whatever program has the port by then
    // (docs/design/0015-proof-of-the-service.md).
    rolldownOptions: { output: { codeSplitting: false } },
    chunkSizeWarningLimit: 1000,
  },
  server: {
    proxy: {
      '/v1': {
        target: service,
        ws: true,
        // The service takes no name of a machine, also not localhost.
        changeOrigin: true,
        ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
        // The service checks that pages are its own; this one comes from the development server.
        configure: (proxy) => {
          proxy.on('proxyReq', (request) => request.removeHeader('origin'))
          proxy.on('proxyReqWs', (request) => request.removeHeader('origin'))
        },
      },
    },
  },
})
