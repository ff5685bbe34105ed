// A canvas that follows its size, sharp on every display.

export class Screen {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas, onResize) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.width = this.height = 0;
    this.watcher = new ResizeObserver(() => {
      this.#measure();
      onResize();
    });
    this.watcher.observe(canvas);
    this.#measure();
  }

  #measure() {
    const ratio = Math.min(3, devicePixelRatio || 1);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.ratio = ratio;
    const [w, h] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.version = (this.version ?? 0) + 1;
  }

  get visible() {
    return this.width > 0 && this.height > 0;
  }

  /** The cleared context, in CSS pixels. */
  clean() {
    this.ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.ctx.clearRect(0, 0, this.width, this.height);
    return this.ctx;
  }

  close() {
    this.watcher.disconnect();
  }
}
