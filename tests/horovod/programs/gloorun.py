"""horovodrun --gloo, but it does not ask whether Horovod has Gloo: for that it imports TensorFlow, which takes 3 s."""

from horovod.runner import launch

if __name__ == "__main__":  # it starts processes that read this file again
    launch.gloo_built = lambda verbose=False: True
    launch.run_commandline()
